"""The report as one HTML file that loads nothing: text, pictures, style and script are within it."""
