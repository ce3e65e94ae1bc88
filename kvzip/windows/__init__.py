"""Virtual sliding windows: decayed symbol counts, the tables made of them, and the loop that codes with them."""
