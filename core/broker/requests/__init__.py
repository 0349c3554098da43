"""What the handlers of requests share: who asks, which records pass, what old clients are sent."""
