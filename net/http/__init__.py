"""HTTP/1.1 on trio: a server and a client, with h11 as their parser."""
