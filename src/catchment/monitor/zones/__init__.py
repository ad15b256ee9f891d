"""Where the global vector may be while nobody needs to speak: the mathematics of the monitoring rules, and no protocol.

One convention for all of them. The sketches of k sites add up to E when they were last collected; since then site j's
has moved by the drift D_j. With X_j = k D_j the sum now is S = E + (1/k) ΣX_j, and 1/k makes it an average of the
points E + X_j. Each rule here is a real function of a site's own X_j, its **slack** ζ, concave, with ζ(X) >= 0 only
where E + X is admissible. So (1/k) Σζ(X_j) >= 0 implies ζ(average) >= 0, and the promise about S holds, however the
slack is shared among sites. `scale` is the k of a drift that is given unscaled. `share` is the λ of the perspective λ
ζ(X/λ), which is concave too: sites that hold λ and a balance that holds the other 1 - λ are safe together (research on
rebalancing, Samoladas and Garofalakis, EDBT 2019).

`BallZone` (the geometric method of 004) is the older rule, yes or no at each site.
"""
