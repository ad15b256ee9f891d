SELECT * FROM pages;
run1 paris: SELECT pages.url AS url, pages.rank AS rank FROM (SELECT pages.url, pages.rank FROM pages AS pages) AS pages
run2 rome: SELECT pages.url AS url, pages.rank AS rank FROM (SELECT pages.url, pages.rank FROM pages AS pages) AS pages
answer: run1, run2

SELECT url FROM pages WHERE rank > 10 AND _cloud = 'rome';
run1 rome: SELECT pages.url AS url FROM (SELECT pages.url FROM pages AS pages WHERE pages.rank > 10 AND 'rome' = 'rome') AS pages
answer: run1

SELECT substr(ip, 1, 8), sum(revenue) FROM visits GROUP BY substr(ip, 1, 8);
keep1 paris: catchment_q_1 = SELECT SUBSTRING(visits.ip, 1, 8) AS _k0, SUM(visits.revenue) AS _p0 FROM (SELECT visits.ip, visits.revenue FROM visits AS visits) AS visits GROUP BY SUBSTRING(visits.ip, 1, 8)
keep2 rome: catchment_q_2 = SELECT SUBSTRING(visits.ip, 1, 8) AS _k0, SUM(visits.revenue) AS _p0 FROM (SELECT visits.ip, visits.revenue FROM visits AS visits) AS visits GROUP BY SUBSTRING(visits.ip, 1, 8)
run1 rome: SELECT _k0, _p0 FROM catchment_q_2 WHERE PMOD(XXHASH64(_k0), 2) = 0
put1 paris: catchment_q_3 = run1
run2 paris: SELECT _k0, _p0 FROM catchment_q_1 WHERE PMOD(XXHASH64(_k0), 2) = 1
put2 rome: catchment_q_4 = run2
run3 paris: SELECT p._k0 AS _col_0, SUM(p._p0) AS _col_1 FROM (SELECT p._k0, p._p0 FROM (SELECT _k0, _p0 FROM (SELECT _k0, _p0 FROM catchment_q_1 WHERE PMOD(XXHASH64(_k0), 2) = 0 UNION ALL SELECT _k0, _p0 FROM catchment_q_3) AS _both) AS p DISTRIBUTE BY p._k0) AS p GROUP BY p._k0
run4 rome: SELECT p._k0 AS _col_0, SUM(p._p0) AS _col_1 FROM (SELECT p._k0, p._p0 FROM (SELECT _k0, _p0 FROM (SELECT _k0, _p0 FROM catchment_q_2 WHERE PMOD(XXHASH64(_k0), 2) = 1 UNION ALL SELECT _k0, _p0 FROM catchment_q_4) AS _both) AS p DISTRIBUTE BY p._k0) AS p GROUP BY p._k0
answer: run3, run4

SELECT count(*), avg(price), sum(price), avg(revenue), min(day) FROM visits WHERE n = 3;
run1 paris: SELECT COUNT(*) AS _p0, COUNT(visits.price) AS _p1, SUM(visits.price) AS _p2, COUNT(visits.revenue) AS _p3, SUM(CAST(visits.revenue AS DOUBLE)) AS _p4, MIN(visits.day) AS _p5 FROM (SELECT visits.day, visits.revenue, visits.price FROM visits AS visits WHERE visits.n = 3) AS visits
run2 rome: SELECT COUNT(*) AS _p0, COUNT(visits.price) AS _p1, SUM(visits.price) AS _p2, COUNT(visits.revenue) AS _p3, SUM(CAST(visits.revenue AS DOUBLE)) AS _p4, MIN(visits.day) AS _p5 FROM (SELECT visits.day, visits.revenue, visits.price FROM visits AS visits WHERE visits.n = 3) AS visits
put1 paris: catchment_q_1 = run1, run2
run3 paris: SELECT COALESCE(SUM(p._p0), 0) AS _col_0, COALESCE(CAST(TRY_CAST(CAST(SUM(p._p2) AS DECIMAL(20, 2)) AS DECIMAL(23, 2)) / TRY_CAST(NULLIF(SUM(p._p1), 0) AS DECIMAL(14, 0)) AS DECIMAL(14, 6)), CAST(CAST(SUM(p._p2) AS DECIMAL(20, 2)) / CAST(NULLIF(SUM(p._p1), 0) AS DECIMAL(20, 0)) AS DECIMAL(14, 6))) AS _col_1, CAST(SUM(p._p2) AS DECIMAL(20, 2)) AS _col_2, (SUM(p._p4) / NULLIF(SUM(p._p3), 0)) AS _col_3, MIN(p._p5) AS _col_4 FROM (SELECT _p0, _p1, _p2, _p3, _p4, _p5 FROM catchment_q_1) AS p
answer: run3

SELECT ip, count(DISTINCT url) AS urls FROM visits GROUP BY ip HAVING urls > 2 ORDER BY urls DESC LIMIT 3;
run1 rome: SELECT visits.ip AS _k0, visits.url AS _d0 FROM (SELECT visits.ip, visits.url FROM visits AS visits) AS visits GROUP BY visits.ip, visits.url
put1 paris: catchment_q_1 = run1
keep1 paris: catchment_q_2 = SELECT visits.ip AS _k0, visits.url AS _d0 FROM (SELECT visits.ip, visits.url FROM visits AS visits) AS visits GROUP BY visits.ip, visits.url
run2 paris: SELECT p._k0 AS ip, COUNT(DISTINCT p._d0) AS urls FROM (SELECT _k0, _d0 FROM (SELECT _k0, _d0 FROM catchment_q_2 UNION ALL SELECT _k0, _d0 FROM catchment_q_1) AS _both) AS p GROUP BY p._k0 HAVING COUNT(DISTINCT p._d0) > 2 ORDER BY urls DESC LIMIT 3
answer: run2

SELECT ip, url, count(*) FROM visits GROUP BY ROLLUP (ip, url);
run1 rome: SELECT visits.ip AS _k0, visits.url AS _k1, COUNT(*) AS _p0 FROM (SELECT visits.ip, visits.url FROM visits AS visits) AS visits GROUP BY visits.ip, visits.url
put1 paris: catchment_q_1 = run1
keep1 paris: catchment_q_2 = SELECT visits.ip AS _k0, visits.url AS _k1, COUNT(*) AS _p0 FROM (SELECT visits.ip, visits.url FROM visits AS visits) AS visits GROUP BY visits.ip, visits.url
run2 paris: SELECT p._k0 AS ip, p._k1 AS url, COALESCE(SUM(p._p0), 0) AS _col_2 FROM (SELECT _k0, _k1, _p0 FROM (SELECT _k0, _k1, _p0 FROM catchment_q_2 UNION ALL SELECT _k0, _k1, _p0 FROM catchment_q_1) AS _both) AS p GROUP BY ROLLUP (p._k0, p._k1)
answer: run2

SELECT ip, sum(sum(n)) OVER () FROM visits GROUP BY ip;
run1 rome: SELECT visits.ip AS _k0, SUM(visits.n) AS _p0 FROM (SELECT visits.ip, visits.n FROM visits AS visits) AS visits GROUP BY visits.ip
put1 paris: catchment_q_1 = run1
keep1 paris: catchment_q_2 = SELECT visits.ip AS _k0, SUM(visits.n) AS _p0 FROM (SELECT visits.ip, visits.n FROM visits AS visits) AS visits GROUP BY visits.ip
run2 paris: SELECT p._k0 AS ip, SUM(SUM(p._p0)) OVER () AS _col_1 FROM (SELECT _k0, _p0 FROM (SELECT _k0, _p0 FROM catchment_q_2 UNION ALL SELECT _k0, _p0 FROM catchment_q_1) AS _both) AS p GROUP BY p._k0
answer: run2

SELECT ip, revenue FROM visits ORDER BY revenue DESC, day LIMIT 3 OFFSET 2;
run1 paris: SELECT visits.ip AS _c0, visits.revenue AS _c1, visits.revenue AS _o0, visits.day AS _o1 FROM (SELECT visits.ip, visits.day, visits.revenue FROM visits AS visits) AS visits ORDER BY _o0 DESC, _o1 LIMIT 5
run2 rome: SELECT visits.ip AS _c0, visits.revenue AS _c1, visits.revenue AS _o0, visits.day AS _o1 FROM (SELECT visits.ip, visits.day, visits.revenue FROM visits AS visits) AS visits ORDER BY _o0 DESC, _o1 LIMIT 5
put1 paris: catchment_q_1 = run1, run2
run3 paris: SELECT p._c0 AS ip, p._c1 AS revenue FROM (SELECT _c0, _c1, _o0, _o1 FROM catchment_q_1) AS p ORDER BY p._o0 DESC, p._o1 LIMIT 3 OFFSET 2
answer: run3

SELECT ip FROM visits LIMIT 5;
run1 paris: SELECT visits.ip AS ip FROM (SELECT visits.ip FROM visits AS visits) AS visits LIMIT 5
run2 rome: SELECT visits.ip AS ip FROM (SELECT visits.ip FROM visits AS visits) AS visits LIMIT 5
answer: run1, run2 [0:5]

SELECT DISTINCT ip FROM visits ORDER BY ip;
run1 rome: SELECT DISTINCT visits.ip AS ip FROM (SELECT visits.ip FROM visits AS visits) AS visits
put1 paris: catchment_q_1 = run1
keep1 paris: catchment_q_2 = SELECT DISTINCT visits.ip AS ip FROM (SELECT visits.ip FROM visits AS visits) AS visits
run2 paris: SELECT DISTINCT ip FROM (SELECT ip FROM (SELECT ip FROM catchment_q_2 UNION ALL SELECT ip FROM catchment_q_1) AS _both) AS p ORDER BY ip
answer: run2

SELECT url FROM visits UNION ALL SELECT ip FROM shops;
run1 paris: SELECT _both.url FROM (SELECT visits.url AS url FROM (SELECT visits.url FROM visits AS visits) AS visits UNION ALL SELECT * FROM (SELECT shops.ip AS ip FROM (SELECT CAST(NULL AS STRING) AS ip WHERE FALSE) AS shops) AS _none WHERE FALSE) AS _both
run2 rome: SELECT _both.url FROM (SELECT visits.url AS url FROM (SELECT visits.url FROM visits AS visits) AS visits UNION ALL SELECT shops.ip AS ip FROM (SELECT shops.ip FROM shops AS shops) AS shops) AS _both
answer: run1, run2

SELECT url FROM visits UNION SELECT url FROM pages;
run1 rome: SELECT DISTINCT _both.url FROM (SELECT visits.url AS url FROM (SELECT visits.url FROM visits AS visits) AS visits UNION ALL SELECT pages.url AS url FROM (SELECT pages.url FROM pages AS pages) AS pages) AS _both
put1 paris: catchment_q_1 = run1
keep1 paris: catchment_q_2 = SELECT DISTINCT _both.url FROM (SELECT visits.url AS url FROM (SELECT visits.url FROM visits AS visits) AS visits UNION ALL SELECT pages.url AS url FROM (SELECT pages.url FROM pages AS pages) AS pages) AS _both
run2 paris: SELECT DISTINCT url FROM (SELECT url FROM (SELECT url FROM catchment_q_2 UNION ALL SELECT url FROM catchment_q_1) AS _both) AS p
answer: run2

SELECT url FROM visits EXCEPT SELECT url FROM pages;
run1 rome: SELECT DISTINCT url FROM (SELECT visits.url AS url FROM (SELECT visits.url FROM visits AS visits) AS visits) AS _side
put1 paris: catchment_q_1 = run1
keep1 paris: catchment_q_2 = SELECT DISTINCT url FROM (SELECT visits.url AS url FROM (SELECT visits.url FROM visits AS visits) AS visits) AS _side
run2 rome: SELECT DISTINCT url FROM (SELECT pages.url AS url FROM (SELECT pages.url FROM pages AS pages) AS pages) AS _side
put2 paris: catchment_q_3 = run2
keep2 paris: catchment_q_4 = SELECT DISTINCT url FROM (SELECT pages.url AS url FROM (SELECT pages.url FROM pages AS pages) AS pages) AS _side
run3 paris: SELECT _both.url FROM (SELECT url FROM (SELECT url FROM catchment_q_2 UNION ALL SELECT url FROM catchment_q_1) AS _both EXCEPT SELECT url FROM (SELECT url FROM catchment_q_4 UNION ALL SELECT url FROM catchment_q_3) AS _both) AS _both
answer: run3

SELECT v.ip, s.name FROM visits v JOIN shops s ON v.ip = s.ip WHERE v.n = 1 AND s.name LIKE 'a%';
run1 rome: SELECT s.ip, s.name FROM shops AS s WHERE s.name LIKE 'a%'
put1 paris: catchment_q_1 = run1
run2 paris: SELECT v.ip AS ip, s.name AS name FROM (SELECT v.ip FROM visits AS v WHERE v.n = 1) AS v JOIN (SELECT ip, name FROM catchment_q_1) AS s ON v.ip = s.ip
run3 rome: SELECT v.ip AS ip, s.name AS name FROM (SELECT v.ip FROM visits AS v WHERE v.n = 1) AS v JOIN (SELECT s.ip, s.name FROM shops AS s WHERE s.name LIKE 'a%') AS s ON v.ip = s.ip
answer: run2, run3

SELECT v.ip, s.name FROM visits v LEFT JOIN shops s ON v.ip = s.ip AND s.name = 'x' WHERE s.name IS NULL;
run1 rome: SELECT s.ip, s.name FROM shops AS s WHERE s.name = 'x'
put1 paris: catchment_q_1 = run1
run2 paris: SELECT v.ip AS ip, s.name AS name FROM (SELECT v.ip FROM visits AS v) AS v LEFT JOIN (SELECT ip, name FROM catchment_q_1) AS s ON v.ip = s.ip WHERE s.name IS NULL
run3 rome: SELECT v.ip AS ip, s.name AS name FROM (SELECT v.ip FROM visits AS v) AS v LEFT JOIN (SELECT s.ip, s.name FROM shops AS s WHERE s.name = 'x') AS s ON v.ip = s.ip WHERE s.name IS NULL
answer: run2, run3

SELECT s.name, v.ip FROM shops s RIGHT JOIN visits v ON v.ip = s.ip;
run1 rome: SELECT s.ip, s.name FROM shops AS s
put1 paris: catchment_q_1 = run1
run2 paris: SELECT s.name AS name, v.ip AS ip FROM (SELECT ip, name FROM catchment_q_1) AS s RIGHT JOIN (SELECT v.ip FROM visits AS v) AS v ON v.ip = s.ip
run3 rome: SELECT s.name AS name, v.ip AS ip FROM (SELECT s.ip, s.name FROM shops AS s) AS s RIGHT JOIN (SELECT v.ip FROM visits AS v) AS v ON v.ip = s.ip
answer: run2, run3

SELECT v.n, s.name FROM visits v FULL JOIN shops s ON v.ip = s.ip;
run1 paris: SELECT v.ip, v.n FROM visits AS v
put1 rome: catchment_q_1 = run1
run2 rome: SELECT v.n AS n, s.name AS name FROM (SELECT ip, n FROM (SELECT v.ip, v.n FROM visits AS v UNION ALL SELECT ip, n FROM catchment_q_1) AS _both) AS v FULL JOIN (SELECT s.ip, s.name FROM shops AS s) AS s ON v.ip = s.ip
answer: run2

SELECT v.n, s.name FROM visits v FULL JOIN shops s ON v.ip = s.ip WHERE v.n > 3 AND s.name LIKE 'a%';
run1 paris: SELECT v.ip, v.n FROM visits AS v
put1 rome: catchment_q_1 = run1
run2 rome: SELECT v.n AS n, s.name AS name FROM (SELECT ip, n FROM (SELECT v.ip, v.n FROM visits AS v UNION ALL SELECT ip, n FROM catchment_q_1) AS _both) AS v FULL JOIN (SELECT s.ip, s.name FROM shops AS s) AS s ON v.ip = s.ip WHERE v.n > 3 AND s.name LIKE 'a%'
answer: run2

SELECT ip FROM visits WHERE ip IN (SELECT ip FROM shops);
run1 rome: SELECT shops.ip AS ip FROM (SELECT shops.ip FROM shops AS shops) AS shops
put1 paris: catchment_q_1 = run1
run2 paris: SELECT visits.ip AS ip FROM (SELECT visits.ip FROM visits AS visits) AS visits WHERE visits.ip IN (SELECT ip FROM catchment_q_1)
run3 rome: SELECT visits.ip AS ip FROM (SELECT visits.ip FROM visits AS visits) AS visits WHERE visits.ip IN (SELECT shops.ip AS ip FROM (SELECT shops.ip FROM shops AS shops) AS shops)
answer: run2, run3

SELECT ip FROM visits v WHERE EXISTS (SELECT 1 FROM shops s WHERE s.ip = v.ip AND s.name = 'x');
run1 rome: SELECT s.ip FROM shops AS s WHERE s.name = 'x'
put1 paris: catchment_q_1 = run1
run2 paris: SELECT v.ip AS ip FROM (SELECT v.ip FROM visits AS v) AS v WHERE EXISTS(SELECT 1 AS `1` FROM (SELECT ip FROM catchment_q_1) AS s WHERE s.ip = v.ip)
run3 rome: SELECT v.ip AS ip FROM (SELECT v.ip FROM visits AS v) AS v WHERE EXISTS(SELECT 1 AS `1` FROM (SELECT s.ip FROM shops AS s WHERE s.name = 'x') AS s WHERE s.ip = v.ip)
answer: run2, run3

WITH totals AS (SELECT ip, sum(n) AS total FROM visits GROUP BY ip) SELECT a.ip FROM totals a JOIN totals b ON a.total = b.total;
run1 rome: SELECT visits.ip AS _k0, SUM(visits.n) AS _p0 FROM (SELECT visits.ip, visits.n FROM visits AS visits) AS visits GROUP BY visits.ip
put1 paris: catchment_q_1 = run1
keep1 paris: catchment_q_2 = SELECT visits.ip AS _k0, SUM(visits.n) AS _p0 FROM (SELECT visits.ip, visits.n FROM visits AS visits) AS visits GROUP BY visits.ip
run2 paris: SELECT a.ip AS ip FROM (SELECT p._k0 AS ip, SUM(p._p0) AS total FROM (SELECT _k0, _p0 FROM (SELECT _k0, _p0 FROM catchment_q_2 UNION ALL SELECT _k0, _p0 FROM catchment_q_1) AS _both) AS p GROUP BY p._k0) AS a JOIN (SELECT p._k0 AS ip, SUM(p._p0) AS total FROM (SELECT _k0, _p0 FROM (SELECT _k0, _p0 FROM catchment_q_2 UNION ALL SELECT _k0, _p0 FROM catchment_q_1) AS _both) AS p GROUP BY p._k0) AS b ON a.total = b.total
answer: run2

SELECT ip, row_number() OVER (PARTITION BY url ORDER BY day) AS r FROM visits WHERE n = 1;
run1 rome: SELECT visits.ip, visits.url, visits.day FROM visits AS visits WHERE visits.n = 1
put1 paris: catchment_q_1 = run1
run2 paris: SELECT visits.ip AS ip, ROW_NUMBER() OVER (PARTITION BY visits.url ORDER BY visits.day) AS r FROM (SELECT ip, url, day FROM (SELECT visits.ip, visits.url, visits.day FROM visits AS visits WHERE visits.n = 1 UNION ALL SELECT ip, url, day FROM catchment_q_1) AS _both) AS visits
answer: run2

SELECT name FROM shops ORDER BY name;
run1 rome: SELECT shops.name AS name FROM (SELECT shops.name FROM shops AS shops) AS shops ORDER BY name
answer: run1

SELECT 1 AS one;
run1 paris: SELECT 1 AS one
answer: run1

SELECT n FROM visits WHERE day = current_date();
run1 paris: SELECT visits.n AS n FROM (SELECT visits.n FROM visits AS visits WHERE visits.day = CAST(TIMESTAMP_MICROS(0) AS DATE)) AS visits
run2 rome: SELECT visits.n AS n FROM (SELECT visits.n FROM visits AS visits WHERE visits.day = CAST(TIMESTAMP_MICROS(0) AS DATE)) AS visits
answer: run1, run2
