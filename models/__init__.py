"""What is compared: encoders described by plain data, built with torch alone."""
