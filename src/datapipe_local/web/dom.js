// A page as a tree of plain objects, and the smallest change of the document to it. The focused element keeps the
// focus, and every text is set as text.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden"]);

// A node: its tag, its attributes (on... are handlers), its children. null and false are no children.
export function h(tag, props, ...children) {
  const given = props || {};
  return {
    tag,
    props: given,
    key: given.key,
    children: children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false),
  };
}

// Make the children of an element match the wanted nodes.
export function patch(parent, wanted) {
  const keyed = new Map();
  const others = [];
  for (const node of parent.childNodes) {
    if (node.vnode && node.vnode.key !== undefined) keyed.set(node.vnode.key, node);
    else others.push(node);
  }
  const nodes = wanted.map((vnode) => matching(vnode, keyed, others));
  const kept = new Set(nodes);
  for (const node of [...parent.childNodes]) if (!kept.has(node)) node.remove();
  let at = parent.firstChild;
  wanted.forEach((vnode, index) => {
    const node = nodes[index] || made(vnode, parent);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
    update(node, vnode);
  });
}

function isText(vnode) {
  return typeof vnode !== "object";
}

function isLike(node, vnode) {
  if (isText(vnode)) return node.nodeType === Node.TEXT_NODE;
  return Boolean(node.vnode) && node.vnode.tag === vnode.tag;
}

function matching(vnode, keyed, others) {
  if (!isText(vnode) && vnode.key !== undefined) {
    const node = keyed.get(vnode.key);
    if (!node || node.vnode.tag !== vnode.tag) return null;
    keyed.delete(vnode.key);
    return node;
  }
  const index = others.findIndex((node) => isLike(node, vnode));
  return index < 0 ? null : others.splice(0, index + 1)[index];
}

function made(vnode, parent) {
  if (isText(vnode)) return document.createTextNode("");
  const inSvg = vnode.tag === "svg" || (parent.namespaceURI === SVG && parent.localName !== "foreignObject");
  const node = inSvg ? document.createElementNS(SVG, vnode.tag) : document.createElement(vnode.tag);
  node.vnode = { tag: vnode.tag, props: {}, key: vnode.key, children: [] };
  return node;
}

function update(node, vnode) {
  if (isText(vnode)) {
    if (node.nodeValue !== String(vnode)) node.nodeValue = String(vnode);
    return;
  }
  const before = node.vnode.props;
  for (const name of Object.keys(before)) if (!(name in vnode.props)) set(node, name, null, before[name]);
  for (const [name, value] of Object.entries(vnode.props)) set(node, name, value, before[name]);
  node.vnode = vnode;
  patch(node, vnode.children);
}

function set(node, name, value, before) {
  if (name === "key") return;
  if (name.startsWith("on")) {
    node[name] = value;
  } else if (PROPERTIES.has(name)) {
    const wanted = value ?? (name === "value" ? "" : false);
    // Do not overwrite the user's input.
    if (node[name] !== wanted && !(name === "value" && node === document.activeElement)) node[name] = wanted;
  } else if (value !== before) {
    if (value === null || value === undefined || value === false) node.removeAttribute(name);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
}
