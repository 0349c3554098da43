CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, price REAL, updated_at TEXT);
INSERT INTO products VALUES
  (1, 'pen', 2.50, '2026-01-05 09:00:00'),
  (2, 'ink', 7.00, '2026-01-05 09:00:00'),
  (3, 'paper', 4.20, '2026-01-05 09:05:00');
