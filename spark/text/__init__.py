"""CSV and JSON as text: what becomes columns, and how columns become text again."""
