"""What the command line may say: its options, help, manual and completion."""
