"""What every test may use: the brokers that client tests run against."""

pytest_plugins = ["clients.fixtures", "zookeeper_server"]
