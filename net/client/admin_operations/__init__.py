"""The operations of the admin client, by what they are about; `Admin` in admin.py has them all."""
