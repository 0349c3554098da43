"""The fast path of Produce: appends the batches that most producers send in runs, without decoding
the request."""
