"""One incident per death: opened at the first sign, revised by what comes later, its id unchanged."""
