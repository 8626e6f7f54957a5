"""Words that people use for what the scenes show; the first of each is the usual one."""

SHAPES = {
    "circle": ("circle", "ball", "disc"),
    "square": ("square", "box", "block"),
    "triangle": ("triangle", "pyramid", "wedge"),
    "star": ("star", "five-pointed star"),
    "heart": ("heart", "heart shape"),
    "ring": ("ring", "hoop", "donut"),
    "cross": ("cross", "plus sign"),
    "diamond": ("diamond", "rhombus", "kite"),
    "moon": ("moon", "crescent", "crescent moon"),
    "flower": ("flower", "blossom", "daisy"),
}
VAGUE = ("shape", "thing", "object", "figure")
COLOURS = {
    "red": ("red", "crimson", "scarlet"),
    "orange": ("orange", "tangerine"),
    "yellow": ("yellow", "golden", "lemon"),
    "green": ("green", "emerald"),
    "blue": ("blue", "azure", "royal blue"),
    "purple": ("purple", "violet"),
    "pink": ("pink", "rose"),
    "brown": ("brown", "chestnut", "chocolate"),
    "white": ("white", "ivory"),
    "black": ("black", "jet black"),
}
SIZES = {"small": ("small", "little", "tiny"), "medium": (), "large": ("big", "large", "huge")}
TEXTURES = {
    "plain": (),
    "striped": ("striped", "stripy"),
    "dotted": ("spotted", "dotted", "polka dot"),
    "checked": ("checked", "checkered", "chequered"),
}
TEXTURES_AFTER = {
    "plain": (),
    "striped": ("with stripes", "with lines on it"),
    "dotted": ("with dots", "with spots", "covered in dots"),
    "checked": ("with a checkerboard pattern", "with checks"),
}
"""Said behind the noun."""
GROUNDS = {
    "grass": ("on the grass", "on a meadow", "in a green field"),
    "sand": ("on the sand", "on a beach", "in the desert"),
    "snow": ("in the snow", "on a snowy field", "in a winter landscape"),
    "water": ("on the water", "at sea", "over a lake"),
    "wheat": ("in a wheat field", "in the corn", "on a golden field"),
    "stone": ("by a stone wall", "in front of a stone wall", "against grey stones"),
    "planks": ("on wooden planks", "on a wooden deck", "on a jetty"),
}
SKIES = {
    "clear": ("under a blue sky", "on a sunny day", "by day"),
    "cloudy": ("under a cloudy sky", "on a grey day", "under clouds"),
    "sunset": ("at sunset", "in the evening", "with the sun going down"),
    "night": ("at night", "under the stars", "in the dark"),
    "storm": ("in a thunderstorm", "in a storm", "with lightning in the sky"),
}
RELATIONS = {
    "left": ("to the left of", "left of", "on the left side of"),
    "right": ("to the right of", "right of", "on the right side of"),
    "above": ("above", "over"),
    "below": ("below", "under", "beneath"),
}
BESIDE = ("next to", "beside", "near", "close to")
SIDES = {
    "left": ("to its left", "on its left"),
    "right": ("to its right", "on its right"),
    "above": ("above it", "over it"),
    "below": ("below it", "underneath it"),
}
NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
ACROSS = ("left", "", "right")
DOWN = ("top", "", "bottom")
