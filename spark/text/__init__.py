"""CSV and JSON text: parsing it into columns, and writing columns as text."""
