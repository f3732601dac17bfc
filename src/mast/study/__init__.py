"""The user study (paper, App. "User study") on anybody's runs: make, serve, report, simulate."""
