SELECT sum(value) AS total FROM {{model.bulk_update.numbers}}
