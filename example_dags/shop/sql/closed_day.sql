SELECT id, customer_id, amount, DATE '{{ data_interval_start | ds }}' AS closed_day
FROM {{raw.shop.orders}}
WHERE ordered_on >= DATE '{{ data_interval_start | ds }}' AND ordered_on < DATE '{{ data_interval_end | ds }}'
