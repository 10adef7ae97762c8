"""Files of any supported format -> columns of text, as streams."""
