"""The network: servers and connections on trio, a broker as a running node, and the client
library."""
