SELECT sum(value) AS total FROM {{model.bulk.numbers}}
