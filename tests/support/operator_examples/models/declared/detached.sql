-- ---
-- orchestration: none
-- ---
SELECT 1 AS id
