"""`pk shell`: an interactive shell for pk's commands."""
