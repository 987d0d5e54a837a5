// The API reference in Markdown, from the OpenAPI document: a page per tag, and a page of schemas.
import { code, escape } from './text.mjs'

const methods = ['get', 'put', 'post', 'delete', 'patch']
const schemaPage = '@/openapi/schemas.md'
const capitalized = (text) => text[0].toUpperCase() + text.slice(1)

// openapiPages returns the pages of the reference.
export function openapiPages(document) {
  const reference = new Reference(document)
  const source = 'internal/api/openapi.json'
  const tags = document.tags.map(({ name }) => ({
    path: `openapi/${name}.md`, section: 'openapi', source,
    title: `${capitalized(name)}`, description: `Operations of the HTTP API: ${name}.`, text: reference.tagPage(name),
  }))
  const known = new Set(document.tags.map(({ name }) => name))
  for (const { method, path, operation } of reference.operations) {
    if (!known.has(operation.tags?.[0])) throw new Error(`${source}: ${method} ${path} has no tag that the document lists`)
  }
  return [{
    path: 'openapi/index.md', section: 'openapi', source, title: 'API reference',
    description: 'All operations of the HTTP API, generated from its OpenAPI document.', text: reference.indexPage(),
  }, ...tags, {
    path: 'openapi/schemas.md', section: 'openapi', source, title: 'Schemas',
    description: 'All objects that the HTTP API reads and writes.', text: reference.schemasPage(),
  }]
}

class Reference {
  constructor(document) {
    this.document = document
    this.operations = Object.entries(document.paths).flatMap(([path, item]) =>
      methods.filter((method) => item[method]).map((method) => ({
        method: method.toUpperCase(), path, operation: item[method],
        parameters: [...item.parameters ?? [], ...item[method].parameters ?? []].map((p) => this.resolve(p)),
      })))
  }

  // resolve follows references within the document.
  resolve(node) {
    while (node?.$ref) node = { ...this.at(node.$ref), ...Object.fromEntries(Object.entries(node).filter(([k]) => k !== '$ref')) }
    return node
  }

  at(ref) {
    const found = ref.replace(/^#\//, '').split('/').reduce((node, key) =>
      node?.[key.replaceAll('~1', '/').replaceAll('~0', '~')], this.document)
    if (!found) throw new Error(`openapi.json: ${ref} leads nowhere`)
    return found
  }

  indexPage() {
    const { info } = this.document
    const tables = this.document.tags.map(({ name }) => {
      const rows = this.operations.filter(({ operation }) => operation.tags[0] === name).map((o) =>
        `| [${escape(o.operation.summary)}](@/openapi/${name}.md#${o.operation.operationId}) | ${code(`${o.method} ${o.path}`)} |`)
      return `## ${capitalized(name)}\n\n| operation | request |\n|---|---|\n${rows.join('\n')}\n`
    })
    return `# API reference

${escape(info.description)}

These pages are generated from [openapi.json](@public/openapi.json). An installation serves its own copy at
\`/openapi.json\`. [The HTTP API](@/api.md) shows how to use the operations.

${tables.join('\n')}`
  }

  tagPage(tag) {
    const operations = this.operations.filter(({ operation }) => operation.tags[0] === tag)
    return `# API reference: ${tag}\n\n` +
      'Generated from the [OpenAPI document](@/openapi/index.md). Error codes have [a page each](@/problems/index.md).\n\n' +
      operations.map((o) => this.operationText(o)).join('\n')
  }

  operationText({ method, path, operation, parameters }) {
    const parts = [`## ${escape(operation.summary)} {:#${operation.operationId}}`, code(`${method} ${path}`)]
    if (operation.description) parts.push(escape(operation.description))
    if (operation.security?.length === 0) parts.push('This operation needs no authentication.')
    if (parameters.length) {
      parts.push('**Parameters**', '| name | in | type | meaning |\n|---|---|---|---|\n' + parameters.map((p) =>
        `| ${code(p.name)}${p.required ? ' (required)' : ''} | ${p.in} | ${this.type(p.schema)} | ${this.meaning(p, p.schema)} |`,
      ).join('\n'))
    }
    const body = this.resolve(operation.requestBody)
    if (body) {
      parts.push(`**Request body**${body.required ? ' (required)' : ''}: ${this.content(body.content)}`)
      if (body.description) parts.push(escape(body.description))
      for (const { example } of Object.values(body.content)) {
        if (example !== undefined) parts.push('```json\n' + JSON.stringify(example, null, 2) + '\n```')
      }
    }
    parts.push('**Answers**', '| status | meaning | body |\n|---|---|---|\n' + this.responses(operation))
    return parts.join('\n\n') + '\n'
  }

  responses(operation) {
    return Object.entries(operation.responses).map(([status, node]) => {
      const response = this.resolve(node)
      const headers = Object.keys(response.headers ?? {}).map(code).join(', ')
      const meaning = escape(response.description ?? '') + (headers ? ` Headers: ${headers}.` : '')
      return `| ${status} | ${meaning} | ${this.content(response.content)} |`
    }).join('\n')
  }

  content(content) {
    if (!content) return ''
    return Object.entries(content).map(([media, { schema }]) => {
      if (media === 'application/problem+json') return this.type(schema)
      return [schema ? this.type(schema) : '', media === 'application/json' ? '' : code(media)].filter(Boolean).join(' as ')
    }).join(' or ')
  }

  schemasPage() {
    const schemas = Object.entries(this.document.components.schemas)
    return `# API reference: schemas

The objects that the HTTP API reads and writes. Generated from the [OpenAPI document](@/openapi/index.md).

${schemas.map(([name, schema]) => this.schemaText(name, schema)).join('\n')}`
  }

  schemaText(name, schema) {
    const parts = [`## ${name} {:#${name}}`]
    if (schema.description) parts.push(escape(schema.description))
    const rows = this.fields(schema, '')
    if (rows.length) {
      parts.push('| field | type | meaning |\n|---|---|---|\n' + rows.join('\n'))
    } else {
      parts.push(`Type: ${this.type(schema)}. ${this.meaning({}, schema)}`.trim())
    }
    if (rows.length && (schema.anyOf || schema.oneOf)) parts.push(this.alternatives(schema.anyOf ?? schema.oneOf))
    return parts.join('\n\n') + '\n'
  }

  alternatives(list) {
    const texts = list.map((one) => one.required && !one.properties && !one.$ref
      ? one.required.map(code).join(' and ') : this.type(one))
    return `At least one of these applies: ${texts.join('; ')}.`
  }

  // fields returns a row per property, with those of nested objects behind a dot.
  fields(schema, prefix) {
    return Object.entries(schema.properties ?? {}).flatMap(([name, property]) => {
      const required = schema.required?.includes(name) ? ' (required)' : ''
      const own = `| ${code(prefix + name)}${required} | ${this.outer(property)} | ${this.meaning(property, property)} |`
      const items = property.type === 'array' ? property.items : undefined
      const nested = property.properties ? this.fields(property, `${prefix}${name}.`)
        : items?.properties ? this.fields(items, `${prefix}${name}[].`) : []
      return [own, ...nested]
    })
  }

  // type describes what values a schema allows.
  type(schema) {
    if (schema === undefined || schema === true) return 'any'
    if (schema.$ref) return this.reference(schema.$ref)
    if ('const' in schema) return code(JSON.stringify(schema.const))
    if (schema.enum) return schema.enum.map((value) => code(JSON.stringify(value))).join(', ')
    const list = schema.oneOf ?? (schema.properties ? undefined : schema.anyOf)
    if (list) return list.map((one) => this.type(one)).join(' or ')
    const types = [schema.type ?? []].flat().map((type) => this.named(type, schema))
    return types.length ? types.join(' or ') : 'any'
  }

  // outer is the type of a field whose own fields have rows of their own.
  outer(property) {
    if (property.properties) return 'object'
    return property.type === 'array' && property.items?.properties ? 'array of object' : this.type(property)
  }

  named(type, schema) {
    if (type === 'array') return `array of ${this.type(schema.items)}`
    if (type === 'object' && !schema.properties && typeof schema.additionalProperties === 'object') {
      return `object of ${this.type(schema.additionalProperties)}`
    }
    if (type === 'object' && schema.properties) {
      const fields = Object.entries(schema.properties).map(([name, property]) => `${code(name)} (${this.type(property)})`)
      return `object with ${fields.join(', ')}`
    }
    return schema.format && type === 'string' ? `${type} (${schema.format})` : type
  }

  reference(ref) {
    const [, name, rest] = /^#\/components\/schemas\/([^/]+)(\/.+)?$/.exec(ref) ?? []
    if (!name) return this.type(this.at(ref))
    this.at(ref)
    return rest ? this.type(this.at(ref)) : `[${name}](${schemaPage}#${name})`
  }

  // meaning is a description, followed by the limits of a schema.
  meaning(described, schema) {
    const limits = this.limits(this.resolve(schema ?? {}))
    return [escape(described.description ?? this.inherited(schema) ?? ''), limits].filter(Boolean).join(' ')
  }

  // inherited is the description of a part of another schema. A whole schema has its own section.
  inherited(schema) {
    return schema?.$ref && /schemas\/[^/]+\//.test(schema.$ref) ? this.resolve(schema).description : undefined
  }

  limits(schema) {
    const parts = []
    const range = (from, to, unit) => {
      if (from !== undefined && to !== undefined) parts.push(`${from} to ${to}${unit}`)
      else if (from !== undefined) parts.push(`at least ${from}${unit}`)
      else if (to !== undefined) parts.push(`at most ${to}${unit}`)
    }
    range(schema.minimum, schema.maximum, '')
    range(schema.minLength, schema.maxLength, ' characters')
    range(schema.minItems, schema.maxItems, ' items')
    range(schema.minProperties, schema.maxProperties, ' properties')
    if (schema.exclusiveMinimum !== undefined) parts.push(`more than ${schema.exclusiveMinimum}`)
    if (schema.exclusiveMaximum !== undefined) parts.push(`less than ${schema.exclusiveMaximum}`)
    if (schema.uniqueItems) parts.push('unique items')
    if (schema.pattern) parts.push(`pattern ${code(schema.pattern)}`)
    if (schema.default !== undefined) parts.push(`default ${code(JSON.stringify(schema.default))}`)
    if (schema.examples) parts.push(`for example ${schema.examples.map((e) => code(JSON.stringify(e))).join(', ')}`)
    return parts.length ? capitalized(parts.join(', ')) + '.' : ''
  }
}
