-- ---
-- materialization: view
-- documentation: Orders of something.
-- checks:
--   - not_null: [id, customer_id, ordered_on]
--   - unique: id
--   - SELECT sum(amount) = (SELECT sum(amount) FROM {{raw.shop.orders}}) FROM {{this}}
-- ---
-- Orders of nothing were begun and left.
SELECT id, customer_id, ordered_on, amount
FROM {{raw.shop.orders}}
WHERE amount > 0
