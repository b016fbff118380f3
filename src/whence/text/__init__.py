"""Text analysis shared by indexing, search and answering: tokens, stems, sentences, languages."""
