"""Making the pictures: who makes which, once, whatever is killed on the way."""
