"""The fast path of Produce: the requests that most producers send, appended in runs, without
decoding a request or encoding an answer.

A producer pipelines its requests, so the connection's buffer often has several of them. For each,
`ProduceFastPath.accept` compares bytes with those of the request before (frames.py) and validates
the batches in place. `ProduceFastPath.append` then appends what was accepted by one write for each
partition (run.py), and builds the answers by copying bytes of the requests (answers.py).

The general path (../produce.py) is the reference. The fast path changes no answer and no byte of a
log; `pk.produce.fast.path.enable=false` turns all of it off, and tests compare the two
(tests/api/test_produce_fast_path.py). For this to be right, the following must hold:

1. It accepts a request only if the general path would append it, or would refuse it because of what
   the log finds. Anything unusual is left to the general path, which has the words for refusals.
   So every reason to refuse a produce must be known to both: what is wrong with a batch to
   core/record/validation.py, and what forbids a produce (leadership, ACLs, internal topics, and
   whatever is added later) to `ProduceFastPath._begin` or `_accept`. A quota forbids nothing: the
   connection charges the client before the append.
2. A connection's requests take effect in the order in which they came. The connection appends what
   was accepted before it handles any other frame.
3. Nothing awaits between the first `accept` and `append`. The image, the configs, the leaders and
   the bounds of times that `accept` saw are still in force then.
4. The buffer does not change in that time, since what was accepted are views of it. The log
   compares each batch's CRC immediately before the write, on both paths.
5. Nothing learned for one run is believed in the next without a comparison. The pattern of a frame
   is compared byte by byte. The names of topics, and whether the client may write to them, are
   looked up again with each new image. The framing of the last record (last_record.py) counts only
   for a batch of the same size and framing, and for a topic with the same config object.
6. A run leaves the log as if its batches were appended one by one (`Appender.append_run`;
   tests/log/test_append_run.py). A batch that does not fit into a run, such as a duplicate, a
   sequence out of order or one that begins a segment, is appended by itself.
7. With acks=0 a refusal closes the connection, and what comes after it must not be appended. So
   such a request is appended at once, before the next is accepted.
"""
