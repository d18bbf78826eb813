-- ---
-- orchestration: Builds
-- checks:
--   - not_null: id
-- ---
SELECT 1 AS id
