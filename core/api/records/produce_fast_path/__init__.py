"""The fast path of Produce: the requests that most producers send, appended in runs, without
decoding requests or encoding responses.

A producer pipelines its requests, so the connection's buffer often has several of them. For each,
`ProduceFastPath.accept` compares its bytes with those of the previous request (frames.py) and
validates the batches in place. `ProduceFastPath.append` then appends the accepted batches with one
write for each partition (run.py), and builds the responses by copying bytes of the requests
(answers.py).

The general path (../produce.py) is the reference. The fast path changes no response and no byte of
a log; `pk.produce.fast.path.enable=false` disables it, and tests compare the two paths
(tests/api/test_produce_fast_path.py). To be correct, the fast path keeps these rules:

1. It accepts a request only if the general path would append it, or would refuse it because of the
   state of the log. Unusual requests are left to the general path, which has the messages of
   refusals. So both paths must know every reason to refuse a Produce request: those about the batch
   are in core/record/validation.py, those about the partition (leadership, ACLs, internal topics,
   and any that is added later) in `ProduceFastPath._begin` or `_accept`. A quota refuses nothing:
   the connection charges the client before the append.
2. A connection's requests take effect in the order of their arrival. The connection appends the
   accepted batches before it handles any other frame.
3. Nothing awaits between the first `accept` and `append`. The image, the configs, the leaders and
   the bounds of timestamps that `accept` used are still valid then.
4. The buffer does not change in that time, since the accepted batches are views of it. The log
   compares each batch's CRC immediately before the write, on both paths.
5. Nothing learned for one run is used in the next without a comparison. The pattern of a frame is
   compared byte by byte. The names of topics, and whether the client may write to them, are looked
   up again with each new image. The framing of the last record (last_record.py) is used only for a
   batch of the same size and framing, and for a topic with the same config object.
6. A run leaves the log as if its batches were appended one by one (`Appender.append_run`;
   tests/log/test_append_run.py). A batch that does not fit into a run, such as a duplicate, a
   sequence out of order or one that begins a segment, is appended by itself.
7. With acks=0 a refusal closes the connection, and later requests must not be appended. So a
   request with acks=0 is appended at once, before the next is accepted.
"""
