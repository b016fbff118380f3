"""What is said of every answer: vocabulary, triples of each stage, reading and drawing traces."""
