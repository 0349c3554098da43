"""Share groups: members, records acquired and acknowledged, and their stored state."""
