"""The paper's benchmark as commands: the data set, its runs, and the tables made from them."""
