"""What the caption grammar is made of: words, phrases, clauses, and their drawing by lot."""
