"""What chapters are written with: numbers in words, tables, notes, pictures, and the formats of files."""
