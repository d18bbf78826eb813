{# Airflow's and the service's braces, side by side. #}
{% set most = 3 -%}
SELECT value FROM generate_series(1, {{ most }}) AS numbers(value)
