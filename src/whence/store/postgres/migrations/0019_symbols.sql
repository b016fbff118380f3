-- Chunks by what they are called: headings without a blank, of source code the qualified names of symbols. Read from
-- the end, so that `total` finds `shop.Cart.total`. A search has to state the very condition.
CREATE INDEX chunk_called ON chunk (collection_id, reverse(lower(heading COLLATE "C")))
    WHERE octet_length(heading) BETWEEN 1 AND 400 AND position(' ' IN heading) = 0;
