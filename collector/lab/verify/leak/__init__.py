"""D5 by resident memory: sleep and wake a server with a draft model, beside a twin without one."""
