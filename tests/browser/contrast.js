// Contrast of visible text against what is painted behind it (WCAG 2), worst first.
(root) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const luminance = (color) => {
    const [r, g, b] = color.slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    const layers = [];
    for (let here = node; here; here = here.parentElement) {
      const layer = rgba(getComputedStyle(here).backgroundColor);
      if (layer[3] > 0) layers.push(layer);
      if (layer[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const opacity = (node) => {
    let value = 1;
    for (let here = node; here; here = here.parentElement) value *= getComputedStyle(here).opacity;
    return value;
  };
  const found = [];
  for (const node of root.querySelectorAll("*")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.getClientRects().length || node.closest("svg, .cf-sr")) continue;
    const ground = behind(node);
    const ink = rgba(getComputedStyle(node).color);
    const seen = over([ink[0], ink[1], ink[2], ink[3] * opacity(node)], ground);
    const [light, dark] = [luminance(seen), luminance(ground)].sort((a, b) => b - a);
    found.push([(light + 0.05) / (dark + 0.05), node.className, node.textContent.slice(0, 40)]);
  }
  return found.sort((a, b) => a[0] - b[0]);
}
