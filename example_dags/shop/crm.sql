-- The CRM that the shop's contacts are written to: a SQLite database with rules of its own.
CREATE TABLE countries (code TEXT PRIMARY KEY);
INSERT INTO countries VALUES ('DE'), ('FR');

CREATE TABLE contacts (
  customer_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  email TEXT NOT NULL CHECK (email LIKE '%_@_%'),
  country TEXT NOT NULL,
  revenue REAL
);

-- Sales people register a country before they sell there.
CREATE TRIGGER known_countries BEFORE INSERT ON contacts
WHEN NEW.country NOT IN (SELECT code FROM countries)
BEGIN
  SELECT RAISE(ABORT, 'country is not registered');
END;
