// The texts on the page whose contrast to their ground is below 4.5 (WCAG 2.2, 1.4.3).
() => {
  const channels = (color) => color.match(/[\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = channels(color).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const groundOf = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if ((channels(color)[3] ?? 1) > 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const says = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()) || node.matches("textarea, input");
    if (!says || !node.checkVisibility({ opacityProperty: true })) continue;
    const pair = [light(getComputedStyle(node).color), light(groundOf(node))].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < 4.5) poor.push(`${node.tagName}.${node.className} ${node.textContent.slice(0, 30)}: ${contrast.toFixed(2)}`);
  }
  return poor;
}
