"""One module per verb of the command; each is loaded only when its verb is used."""
