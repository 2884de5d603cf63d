"""How variants are compared: composing a study, training and measuring each cell, tracking what was seen."""
