"""The controller and its log, and how a broker finds it, follows it and registers with it."""
