"""The stages of a question, one file each; they talk by messages only."""
