"""The small root process that does for the agent what only root may, and what the agent asks it with."""
