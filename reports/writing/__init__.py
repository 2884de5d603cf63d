"""What chapters are written with: numbers in words, tables, notes and cells."""
