"""Commands beside a study, one package or module each: arguments and drawing; what they measure is in the packages beside."""
