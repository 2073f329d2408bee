"""Each metric's formula, as LaTeX here and as MathML on its page: browsers draw MathML without a script or a font.

Symbols: c the candidate, R or S its references, r one of them, v the picture. Docstrings say the same in plain text.
"""

from __future__ import annotations

_BLEU = (
    r"\text{BLEU-}n = \text{BP} \cdot \left( \prod_{k=1}^{n} p_k \right)^{1/n}",
    r"p_k = \frac{\text{clipped matches of } k\text{-grams} + 10^{-15}}{k\text{-grams} + 10^{-9}}",
    r"\text{BP} = \min\left(1, e^{1 - 1/\rho}\right), \quad"
    r" \rho = \frac{|c| + 10^{-15}}{\text{closest reference length} + 10^{-9}}",
)
_SIMILARITY = r"\frac{\min(g_k(c), g_k(s_j)) \cdot g_k(s_j)}{\|g_k(c)\| \, \|g_k(s_j)\|}"
_IDF = r"g_k(x)_w = \text{tf}_x(w) \cdot \left( \ln N - \ln \max(1, \text{df}(w)) \right)"
_F1 = r"F_1 = \frac{2 P R}{P + R}"
_INFORMATION = r"I = \frac{2 \left( H(X) + H(Y) - H(X, Y) \right)}{H(X) + H(Y)}"
_MIMA = r"f_{\text{MIMA}} = 1 - \underset{\text{layer}}{\text{median}} \, \max_{\text{head}} I"
_MOWE = r"\bar{v}(x) = \frac{1}{n} \sum_{w \in x} V_w"
_FLOW = r"\sum_j T_{ij} = c_i, \quad \sum_i T_{ij} = r_j"
_LCEVAL = (
    r"\text{score} = P(\text{human} \mid x) = \frac{e^{z_1}}{e^{z_0} + e^{z_1}}",
    r"z = W_2 \max(0, W_1 x + b_1) + b_2",
)
_CLIP = r"\max\left( \cos(T(\text{“A photo depicts ”} + c), V(v)), 0 \right)"
_TEXTS = r"\max\left( \max_{r \in R} \cos(T(c), T(r)), 0 \right)"
_SUM = (
    r"\text{score} = \sum_k w_k s_k",
    r"\text{or, standardised,} \quad \text{score} = \sum_k w_k \frac{s_k - \mu_k}{\sigma_k}",
)

FORMULAS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("bleu-1", "bleu-2", "bleu-3", "bleu-4"), _BLEU),
    "rouge-l": (
        r"P = \max_{r} \frac{\text{LCS}(c, r)}{|c|}, \quad R = \max_{r} \frac{\text{LCS}(c, r)}{|r|}",
        r"\text{ROUGE-L} = \frac{(1 + \beta^2) P R}{R + \beta^2 P}, \quad \beta = 1.2",
    ),
    "cider": (
        r"\text{CIDEr} = \frac{10}{m} \sum_{j=1}^{m} \frac{1}{n} \sum_{k=1}^{n}"
        r" \frac{g_k(c) \cdot g_k(s_j)}{\|g_k(c)\| \, \|g_k(s_j)\|}",
        _IDF,
    ),
    "cider-d": (
        rf"\text{{CIDEr-D}} = \frac{{10}}{{m}} \sum_{{j=1}}^{{m}} \frac{{1}}{{n}} \sum_{{k=1}}^{{n}} {_SIMILARITY}"
        r" \, e^{-\Delta_j^2 / 2 \sigma^2}",
        _IDF + r", \quad \Delta_j = |c| - |s_j|, \quad \sigma = 6",
    ),
    "cider-r": (
        rf"\text{{CIDEr-R}} = \frac{{10}}{{m}} \sum_{{j=1}}^{{m}} \frac{{1}}{{n}} \sum_{{k=1}}^{{n}} {_SIMILARITY}"
        r" \, \rho_j^{0.8} \, L_j^{0.2}",
        _IDF + r", \quad L_j = e^{-\Delta_j^2 / |s_j|^2}",
        r"\rho_j = \text{the geometric mean over the words of } c \text{ of } \frac{1}{1 + |n_c(w) - n_{s_j}(w)|}",
    ),
    "meteor": (
        r"P = \frac{\sum_i w_i \left( \delta c_i + (1 - \delta) f_i \right)}"
        r"{\delta \, \text{content words} + (1 - \delta) \, \text{function words}}, \quad"
        r" F = \frac{1}{(1 - \alpha) / P + \alpha / R}",
        r"\text{METEOR} = \max_{r} F \left( 1 - \gamma \left( \frac{\text{chunks}}{\text{matched words}} \right)"
        r"^{\beta} \right)",
        r"\alpha = 0.85, \quad \beta = 0.2, \quad \gamma = 0.6, \quad \delta = 0.75",
    ),
    "tbr-unigram": (
        r"\text{score} = \frac{|\{ w \in \text{Comb}' : w \in c \}|}{|\text{Comb}'|}",
        r"\text{Comb}' = \text{the distinct words of } R \text{ without stop words}",
    ),
    "spice": (
        r"P = \frac{|T(c) \otimes T(S)|}{|T(c)|}, \quad R = \frac{|T(c) \otimes T(S)|}{|T(S)|}",
        r"\text{SPICE} = \frac{2 P R}{P + R}",
    ),
    "spider": (r"\text{SPIDEr} = \frac{\text{SPICE} + \text{CIDEr-D}}{2}",),
    "fer": (r"\text{fer} = [P(\text{error}) > 0.9]",),
    "penalised": (r"\text{penalised} = \text{metric} \cdot \left( 1 - 0.9 \cdot [P(\text{error}) > 0.9] \right)",),
    "spider-fl": (r"\text{SPIDEr-FL} = \text{SPIDEr} \cdot \left( 1 - 0.9 \cdot [P(\text{error}) > 0.9] \right)",),
    "fense": (r"\text{FENSE} = \text{mean cosine} \cdot \left( 1 - 0.9 \cdot [P(\text{error}) > 0.9] \right)",),
    "soda-c": (
        r"S(i, j) = \max \left( S(i-1, j), S(i, j-1), S(i-1, j-1) + \text{IoU}(p_i, g_j)"
        r" \cdot \text{similarity}(p_i, g_j) \right)",
        r"P = \frac{S(n, m)}{n}, \quad R = \frac{S(n, m)}{m}, \quad \text{SODA}_c = \frac{2 P R}{P + R}",
    ),
    "dense": (
        r"\text{dense} = \frac{1}{|T|} \sum_{t \in T} \frac{1}{|M_t|} \sum_{(p, g) \in M_t} \text{metric}(p, g),"
        r" \quad M_t = \{ (p, g) : \text{IoU}(p, g) \ge t \} \cup \{ (p, \emptyset) : \text{no such } g \}",
    ),
    "gated": (
        r"m(g) = \text{metric}(c_{p(g)}, C_g) \cdot [\text{IoU}(p(g), g) \ge k], \quad"
        r" p(g) = \text{argmax}_p \text{IoU}(p, g)",
        r"\text{recall} = \frac{\sum_g m(g)}{|G|}, \quad \text{precision} = \frac{\sum_g m(g)}{|P|}",
    ),
    "proposals": (
        r"P_t = \frac{|\{ p : \max_g \text{IoU}(p, g) > t \}|}{n}, \quad"
        r" R_t = \frac{|\{ g : \max_p \text{IoU}(p, g) > t \}|}{m}, \quad"
        r" \text{score} = \frac{1}{|T|} \sum_{t \in T} \frac{2 P_t R_t}{P_t + R_t}",
    ),
    "repetition": (r"\text{R@}n = 1 - \frac{|\text{distinct } n\text{-grams}|}{|n\text{-grams}|}",),
    "distinct": (r"\text{distinct-}n = \frac{|\text{distinct } n\text{-grams}|}{|n\text{-grams}|}",),
    "soft-spice": (r"\text{soft-SPICE} = \frac{1}{|C|} \sum_{c \in C} \max_{s \in S} v(c) \cdot v(s)",),
    "capture": (
        r"\text{CAPTURE} = \frac{5 F_\text{objects} + 5 F_\text{attributes} + 2 F_\text{relations}}{12}, \quad"
        r" F = \frac{2 P R}{P + R}",
        r"P = \frac{M + \sum_{c \in C'} \max_{s \in S'} v(c) \cdot v(s)}{|C|}, \quad"
        r" R = \frac{M + \sum_{s \in S'} \max_{c \in C'} v(c) \cdot v(s)}{|S|}",
    ),
    "sparcs": (
        r"P = \frac{\sum_{c \in C} \text{df}(c) / m}{\sum_{c \in C} \left( \text{df}(c) / m + [\text{df}(c) = 0]"
        r" \right)}, \quad R = \frac{\sum_{c \in C} \text{df}(c)}{\sum_{s \in S} \text{df}(s)}",
        r"\text{SPARCS} = \frac{2 P R}{P + R}",
    ),
    "hwcm": (
        r"\text{hwcm}_u(c, r) = \frac{|g_u(c) \cap g_u(r)|}{|g_u(c)|}, \quad"
        r" \text{score} = \max_{r} \text{hwcm}_n(c, r)",
    ),
    "hallucination": (
        r"\text{score} = \sigma \left( 10 (1 - \cos) + \sum_w (1 - s(w)) (1 - p(w)) + 3 \max_{\text{nouns}} (1 - s(w))"
        r" - \frac{1}{2} \min_{s(w) < 1} \ln p(w) - 4 \right)",
    ),
    "aloha": (r"\text{ALOHa} = \min_{o \in O_c} \cos(o, M(o))",),
    "amber": (
        r"\text{CHAIR} = \frac{\sum_c |H(c)|}{\sum_c |M(c)|}, \quad"
        r" \text{Hal} = \frac{|\{ c : H(c) \neq \emptyset \}|}{|\{ c \}|}",
    ),
    "chair": (
        r"\text{CHAIR}_i = \frac{\sum_c |H(c)|}{\sum_c |M(c)|}, \quad"
        r" \text{CHAIR}_s = \frac{|\{ c : H(c) \neq \emptyset \}|}{|\{ c \}|}",
    ),
    "mima": (_INFORMATION, _MIMA),
    "spurts": (_INFORMATION, r"\text{SPURTS} = 1 - f_{\text{MIMA}}(\text{content words of } c)"),
    "smurf": (
        r"G = \min(\text{MIMA}' - T, 0), \quad D = \max(\text{SPURTS}' - T, 0), \quad T = -1.96",
        r"\text{SMURF} = \begin{cases} \text{SPARCS}' + G & \text{if } \text{SPARCS}' < T \\"
        r" \text{SPARCS}' + D + G & \text{otherwise} \end{cases}",
    ),
    "bertscore": (
        r"R = \frac{\sum_{r} w(r) \max_{c} \cos(r, c)}{\sum_{r} w(r)}, \quad"
        r" P = \frac{\sum_{c} w(c) \max_{r} \cos(r, c)}{\sum_{c} w(c)}",
        _F1,
    ),
    "tbr": (
        r"S(r, c) = \max_j \cos(r, c_j) \text{ if above } \beta, \text{ else } 0",
        r"R_{\text{comb}} = \frac{\sum_{r \in \text{Comb}} \text{idf}(r) \, S(r, c)}"
        r"{\sum_{r \in \text{Comb}, S > 0} \text{idf}(r)}, \quad"
        r" R_{\text{rm}} = \frac{1}{|\text{Comb}'|} \sum_{r \in \text{Comb}'} S(r, c')",
        r"\text{TBR} = R_{\text{comb}} \cdot R_{\text{rm}}",
    ),
    "sbert": (r"\text{score} = \max_{r \in R} \cos(v(c), v(r))",),
    "wembsim": (_MOWE, r"\text{WEmbSim} = \frac{1}{|R|} \sum_{r \in R} |\cos(\bar{v}(c), \bar{v}(r))|"),
    "mowe": (_MOWE, r"\text{MOWE} = \max_{r \in R} \cos(\bar{v}(c), \bar{v}(r))"),
    "wmd": (
        rf"d(c, r) = \min_{{T \geq 0}} \sum_{{i,j}} T_{{ij}} \|v_i - v_j\|, \quad {_FLOW}",
        r"\text{score} = \exp\left( -\min_{r} d(c, r) \right)",
    ),
    "nneval": _LCEVAL,
    "capmeter": (
        r"\text{score} = \sigma\left( \text{similarity} + \sigma(\text{correctness}) \left( \lambda_1"
        r" + \lambda_2 \, \sigma(\text{coverage}) + \lambda_3 \, \sigma(\text{fluency}) \right) \right)",
        r"a_i = \sum_j \text{softmax}_j\left( q(x_i) \cdot k(y_j) + 5 \cos_{ij} \right) y_j",
        r"u_i = \max\left(0, W [x_i, a_i, x_i \odot a_i, |x_i - a_i|, \text{support}_i]\right)",
    ),
    "lceval": _LCEVAL,
    "leic": (r"\text{score}(c, v) = \frac{1}{|R|} \sum_{r \in R} P(c \text{ is human written} \mid v, r, \Theta)",),
    "clipscore": (rf"\text{{CLIP-S}}(c, v) = 2.5 \, {_CLIP}",),
    "refclipscore": (
        rf"\text{{RefCLIP-S}}(c, R, v) = H\left( \text{{CLIP-S}}(c, v), {_TEXTS} \right)",
        r"H(a, b) = \frac{2 a b}{a + b}",
    ),
    "pac-s": (rf"\text{{PAC-S}}(c, v) = 2 \, {_CLIP}",),
    "refpac-s": (
        rf"\text{{RefPAC-S}}(c, R, v) = H\left( \text{{PAC-S}}(c, v), {_TEXTS} \right)",
        r"H(a, b) = \frac{2 a b}{a + b}",
    ),
    "siglip-score": (r"\text{score} = \sigma\left( t \cos(T(c), V(v)) + b \right)",),
    "blip-itm": (r"\text{score} = \text{softmax}(W E(c, v))_{\text{match}}",),
    "regressor": (r"\text{score} = \max_{r} \sigma(\text{MLP}(x_r))",),
    "umic": (r"\text{score} = \sigma\left( W \, \text{UNITER}_{[\text{CLS}]}(v, c) + b \right)",),
    "umic-c": (r"\text{score} = P(\text{match} \mid \text{UNITER}_{[\text{CLS}]}(v, c))",),
    "vilbertscore": (
        r"R = \frac{1}{|r|} \sum_{r} \max_{c} \cos(r, c), \quad P = \frac{1}{|c|} \sum_{c} \max_{r} \cos(r, c)",
        _F1,
    ),
    "vifidel": (r"d(O, C) = \min_{T \geq 0} \sum_{o,c} T_{oc} \|v_o - v_c\|, \quad \text{score} = e^{-d}",),
    "clair-a": (r"\text{score} = \frac{\text{the model's number from 0 to 100}}{100} + \epsilon \, \text{FENSE}",),
    "clair": (r"\text{score} = \frac{\text{the model's number from 0 to 100}}{100}",),
    "fleur": (r"\text{score} = \sum_{d=0}^{9} \frac{d \, p_1(d)}{10} + \sum_{d=0}^{9} \frac{d \, p_2(d)}{100}",),
    "g-veval": (r"\text{score} = \frac{\sum_{s} s \, p(s)}{\sum_{s} p(s)}",),
    "captionqa": (r"\text{score} = \frac{\text{right} + \sum_{\text{abstained}} (1/K + .05)}{\text{answered}}",),
    "capeval": (
        r"\text{score} = \frac{\text{yes} + \text{no}}{\text{yes} + \text{no} + \text{not mentioned}}",
        r"\text{precision} = \frac{\text{yes}}{\text{yes} + \text{no}}",
    ),
    "caprl-qa": (r"\text{score} = \frac{\text{right}}{\text{answered}}",),
    "vdcscore": (r"\text{score} = \frac{1}{n} \sum_{c} \frac{\text{matching answers}_c}{\text{questions}_c}",),
    "autodq": (
        r"R = \frac{\text{reference events entailed by } c}{\text{reference events}}, \quad "
        r"P = \frac{\text{events of } c \text{ entailed by the reference}}{\text{events of } c}",
        _F1,
    ),
    "dcscore": (
        r"P = \frac{\text{true facts}}{\text{facts}}, \quad R = \frac{\sum 1 / n_o + e}{|O| + e}",
        r"\text{score} = \frac{F_{\text{all}} + F_{\text{descriptive}}}{2}",
    ),
    "faithscore": (r"\text{score} = \frac{\text{right facts}}{\text{facts}}",),
    "posh": (
        r"P = \frac{1}{5 |G_c|} \sum_{g \in G_c} \text{grade}(g, R), \quad "
        r"R = \frac{1}{5 |G_R|} \sum_{g \in G_R} \text{grade}(g, c)",
        _F1,
    ),
    "caparena": (r"\text{score} = \frac{\text{wins} - \text{losses}}{\text{comparisons}}",),
    "judge": (
        r"\text{score} = \frac{\sum_{l \in \text{of}} n_l}{\sum_{l \in \text{among}} n_l} \quad \text{or a mean}",
    ),
    "mean": _SUM,
    "combine": _SUM,
}


def formula(name: str) -> str:
    """The formula of a metric as MathML, a line for each equation.

    Raises:
        ValueError: a metric without a formula.
    """
    if name not in FORMULAS:
        raise ValueError(f"scripts/site/formulas.py: no formula of {name}")
    from latex2mathml.converter import convert

    lines = "\n".join(convert(line, display="block") for line in FORMULAS[name])
    return f'<div class="formula" role="group" aria-label="Formula of {name}">\n{lines}\n</div>'
