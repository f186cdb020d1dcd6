"""What is asked of a page to judge whether everybody can use it."""

# Controls and pictures without a name that can be read aloud, and what is missing in the whole.
UNNAMED = """
() => {
    const found = [];
    const say = (what, element) => found.push(`${what}: ${element.outerHTML.slice(0, 120)}`);
    const named = element => {
        const by = element.getAttribute('aria-labelledby');
        const texts = [
            element.getAttribute('aria-label'),
            by && document.getElementById(by)?.textContent,
            ...[...(element.labels ?? [])].map(label => label.textContent),
        ];
        return texts.some(text => text?.trim());
    };
    for (const field of document.querySelectorAll('input, select, textarea'))
        if (field.type !== 'hidden' && !named(field)) say('no label', field);
    for (const button of document.querySelectorAll('button, a, [role=button], [role=tab]'))
        if (!named(button) && !button.textContent.trim() && !button.closest('[aria-hidden=true]'))
            say('no name', button);
    for (const picture of document.querySelectorAll('[role=img], [role=group], table, dialog'))
        if (!named(picture) && !picture.querySelector('title')) say('no name', picture);
    for (const link of document.querySelectorAll('a:not([href])')) say('leads nowhere', link);
    const ids = [...document.querySelectorAll('[id]')].map(element => element.id);
    for (const id of new Set(ids.filter((id, index) => ids.indexOf(id) !== index)))
        found.push(`two elements have the id ${id}`);
    if (!document.documentElement.lang) found.push('the page has no language');
    if (!document.title.includes('Windlass')) found.push(`the title is ${document.title}`);
    return [...new Set(found)];
}
"""

# Texts whose colour is too near to what is behind them, as WCAG counts it.
FAINT_TEXT = """
() => {
    const canvas = document.createElement('canvas');
    const pen = canvas.getContext('2d', { willReadFrequently: true });
    const known = new Map();
    const parts = colour => {
        if (!known.has(colour)) {
            pen.clearRect(0, 0, 1, 1);
            pen.fillStyle = colour;
            pen.fillRect(0, 0, 1, 1);
            const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
            known.set(colour, [red, green, blue, alpha / 255]);
        }
        return known.get(colour);
    };
    const over = ([r, g, b, a], [R, G, B]) =>
        [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
    const behind = element => {
        const layers = [];
        for (let at = element; at; at = at.parentElement)
            layers.unshift(parts(getComputedStyle(at).backgroundColor));
        return layers.reduce((below, layer) => over(layer, below), [255, 255, 255]);
    };
    const luminance = colour => {
        const [r, g, b] = colour.map(part => {
            const value = part / 255;
            return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (one, other) => {
        const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
        return (light + 0.05) / (dark + 0.05);
    };
    const found = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        const text = walker.currentNode.textContent.trim();
        if (!text || !element.checkVisibility({ checkOpacity: true })) continue;
        if (element.closest('svg, option, :disabled, [aria-hidden=true], .skip')) continue;
        const style = getComputedStyle(element);
        const size = parseFloat(style.fontSize);
        const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        const back = behind(element);
        const found_ = contrast(over(parts(style.color), back), back);
        if (found_ < (isLarge ? 3 : 4.5))
            found.add(`${found_.toFixed(2)} for "${text.slice(0, 40)}" (${element.className})`);
    }
    return [...found];
}
"""

# What has the focus: its name, its place, and whether anybody can see that it has it.
FOCUS = """
() => {
    const element = document.activeElement;
    const around = [element, element.closest('label')].filter(Boolean);
    const styles = around.flatMap(each => [
        getComputedStyle(each),
        getComputedStyle(each, '::after'),
    ]);
    const isShown = styles.some(
        style => style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
    );
    return {
        name: element.getAttribute('aria-label') ?? element.textContent.trim(),
        top: Math.round(element.closest('tr, .filters')?.getBoundingClientRect().top ?? 0),
        is_shown: isShown,
    };
}
"""
