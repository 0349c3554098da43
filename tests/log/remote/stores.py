"""Stores for tests: in memory, a local directory, and S3 as moto serves it."""

from collections.abc import Iterator
from contextlib import contextmanager

from pk.core.log.remote.object_storage import ObjectStorage

BUCKET = "segments"


@contextmanager
def s3_server(port: int = 0) -> Iterator[dict[str, str]]:
    """An S3 server on this machine with one bucket. Yields the options of a store on it. The
    objects stay for the next server in this process."""
    import boto3
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        options = {
            "endpoint": f"http://{host}:{port}",
            "region": "us-east-1",
            "access_key_id": "test",
            "secret_access_key": "test",
        }
        client = boto3.client(
            "s3",
            endpoint_url=options["endpoint"],
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        client.create_bucket(Bucket=BUCKET)
        yield options
    finally:
        server.stop()


def s3_storage(options: dict[str, str], prefix: str = "") -> ObjectStorage:
    """The bucket, or a folder of it."""
    return ObjectStorage.open(f"s3://{BUCKET}/{prefix}".rstrip("/"), options)
