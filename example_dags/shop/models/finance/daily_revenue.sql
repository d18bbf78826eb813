-- ---
-- materialization: table
-- schedule: 30 3 * * *
-- documentation: One row for each day with orders.
-- checks:
--   - unique: ordered_on
--   - SELECT min(revenue) > 0 FROM {{this}}
-- ---
SELECT ordered_on, count(*) AS orders, sum(amount) AS revenue
FROM {{model.finance.clean_orders}}
GROUP BY ordered_on
