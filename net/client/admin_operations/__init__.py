"""The operations of the admin client, one file per subject; `Admin` in admin.py combines them."""
