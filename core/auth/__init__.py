"""Who a peer is: principals and the machines that authenticate a connection, without I/O."""
