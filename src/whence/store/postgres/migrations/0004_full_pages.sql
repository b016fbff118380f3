-- Five rows of 384 dimensions fit into a page; the room left free by 0001 made it four, and a scan reads a quarter
-- more pages. The room gained nothing: a row whose class changes needs a new index entry wherever it goes.
ALTER TABLE chunk_vec RESET (fillfactor);
